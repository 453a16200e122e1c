package penstock.headers;

import org.apache.kafka.common.header.*;
import org.apache.kafka.common.header.internals.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.*;
import org.apache.kafka.streams.test.*;
import org.apache.kafka.clients.producer.ProducerRecord;
import java.time.*;
import java.util.*;
import java.util.stream.*;

/**
 * Prints what topologies write whose stores have serdes that take headers: the headers of each output and changelog record,
 * and the headers that deserializers were given. `tests/unit/testing/serdes_with_headers.txt` is its output.
 */
public class SerdesWithHeaders {
  static List<String> trace = new ArrayList<>();
  static String names(Headers hs) { StringJoiner j = new StringJoiner(","); for (Header h : hs) j.add(h.key()); return j.toString(); }
  static class S implements Serde<String> {
    final String tag; S(String t) { tag = t; }
    public Serializer<String> serializer() { return new Serializer<String>() {
      public byte[] serialize(String t, String d) { throw new RuntimeException("no headers"); }
      public byte[] serialize(String t, Headers h, String d) { if (d == null) return null; h.add(tag, new byte[]{1}); return d.getBytes(); } }; }
    public Deserializer<String> deserializer() { return new Deserializer<String>() {
      public String deserialize(String t, byte[] d) { throw new RuntimeException("no headers"); }
      public String deserialize(String t, Headers h, byte[] d) { if (d == null) return null; trace.add(tag + "<" + names(h)); return new String(d); } }; }
  }
  interface B { void build(StreamsBuilder b); }
  static Serde<String> str = Serdes.String();
  static void run(String name, boolean headers, boolean cache, B b, String[][] inputs) {
    Properties p = new Properties();
    p.put("application.id", "app"); p.put("default.key.serde", Serdes.StringSerde.class); p.put("default.value.serde", Serdes.StringSerde.class);
    p.put("statestore.cache.max.bytes", cache ? "1000000" : "0");
    if (headers) p.put("dsl.store.format", "HEADERS");
    p.put("bootstrap.servers", "x:1"); StreamsBuilder sb = new StreamsBuilder(new TopologyConfig(new StreamsConfig(p)));
    b.build(sb);
    System.out.println("== " + name + " headers=" + (headers ? "True" : "False") + " cache=" + (cache ? "True" : "False"));
    try (TopologyTestDriver d = new TopologyTestDriver(sb.build(p), p, Instant.ofEpochMilli(0))) {
      for (String[] in : inputs) {
        TestInputTopic<String, String> t = d.createInputTopic(in[0], new StringSerializer(), new StringSerializer());
        Headers h = new RecordHeaders(); h.add("in", new byte[]{1});
        trace.clear();
        try { t.pipeInput(new TestRecord<>(in[1], in[2], h, Long.parseLong(in[3]))); }
        catch (Exception e) { Throwable c = e; while (c.getCause() != null) c = c.getCause(); System.out.println("raised " + c.getMessage()); break; }
        System.out.println("> " + in[0] + " " + in[1] + " " + in[2]);
        TreeSet<String> topics = new TreeSet<>(d.producedTopicNames());
        for (String topic : topics) {
          TestOutputTopic<byte[], byte[]> o = d.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
          while (!o.isEmpty()) { TestRecord<byte[], byte[]> r = o.readRecord();
            System.out.println("  " + topic + " " + (r.getValue() == null ? "null" : topic.equals("out") ? new String(r.getValue()) : "value") + " [" + names(r.headers()) + "]"); }
        }
        System.out.println("  reads " + trace.stream().distinct().sorted().collect(Collectors.toList()));
      }
    }
  }
  public static void main(String[] a) {
    S k = new S("k"), v = new S("v");
    String[][] two = {{"in", "a", "1", "10"}, {"in", "a", "2", "20"}};
    String[][] del = {{"in", "a", "1", "10"}, {"in", "a", "2", "20"}, {"in", "a", null, "30"}};
    for (boolean h : new boolean[]{false, true}) for (boolean c : new boolean[]{false, true}) {
      run("table", h, c, b -> b.table("in", Consumed.with(k, v), Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("s").withKeySerde(k).withValueSerde(v)).toStream().to("out", Produced.with(str, str)), del);
      run("aggregate", h, c, b -> b.stream("in", Consumed.with(str, str)).groupByKey(Grouped.with(str, str)).aggregate(() -> "", (x, y, z) -> z + y, Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("s").withKeySerde(k).withValueSerde(v)).toStream().to("out", Produced.with(str, str)), two);
      run("window", h, c, b -> b.stream("in", Consumed.with(str, str)).groupByKey(Grouped.with(str, str)).windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(100))).aggregate(() -> "", (x, y, z) -> z + y, Materialized.<String, String, WindowStore<Bytes, byte[]>>as("s").withKeySerde(k).withValueSerde(v)).toStream((w, x) -> w.key()).to("out", Produced.with(str, str)), two);
      run("session", h, c, b -> b.stream("in", Consumed.with(str, str)).groupByKey(Grouped.with(str, str)).windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMillis(100))).aggregate(() -> "", (x, y, z) -> z + y, (x, y, z) -> y + z, Materialized.<String, String, SessionStore<Bytes, byte[]>>as("s").withKeySerde(k).withValueSerde(v)).toStream((w, x) -> w.key()).to("out", Produced.with(str, str)), two);
      run("suppress", h, c, b -> b.table("in", Consumed.with(k, v), Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("s").withKeySerde(k).withValueSerde(v)).suppress(Suppressed.untilTimeLimit(Duration.ofMillis(5), Suppressed.BufferConfig.unbounded()).withName("sup")).toStream().to("out", Produced.with(str, str)), two);
      run("fk", h, c, b -> { KTable<String, String> l = b.table("in", Consumed.with(k, v)); KTable<String, String> r = b.table("right", Consumed.with(k, v));
          l.join(r, x -> x.substring(0, 1), (x, y) -> x + y, Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("s").withKeySerde(k).withValueSerde(v)).toStream().to("out", Produced.with(str, str)); },
          new String[][]{{"right", "1", "r", "5"}, {"in", "a", "1x", "10"}, {"right", "1", "q", "15"}, {"in", "a", "2x", "20"}, {"right", "2", "z", "25"}, {"in", "a", null, "30"}});
      run("outer", h, c, b -> { b.stream("in", Consumed.with(str, str)).outerJoin(b.stream("right", Consumed.with(str, str)), (x, y) -> x + y, JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(10)), StreamJoined.with(k, v, v).withStoreName("j").withName("j")).to("out", Produced.with(str, str)); },
          new String[][]{{"in", "a", "1", "10"}, {"right", "a", "r", "12"}, {"right", "b", "q", "15"}, {"in", "c", "2", "100"}});
    }
    run("versioned", false, false, b -> b.table("in", Consumed.with(k, v), Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore("s", Duration.ofMillis(1000))).withKeySerde(k).withValueSerde(v)).toStream().to("out", Produced.with(str, str)), del);
    run("global", false, false, b -> b.globalTable("in", Consumed.with(k, v), Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("s").withKeySerde(k).withValueSerde(v)), two);
  }
}
