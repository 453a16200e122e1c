package penstock.conformance;

import static penstock.conformance.Kit.L;
import static penstock.conformance.Kit.S;
import static penstock.conformance.Kit.byKey;
import static penstock.conformance.Kit.in;
import static penstock.conformance.Kit.kv;
import static penstock.conformance.Kit.longsIn;
import static penstock.conformance.Kit.longsOut;
import static penstock.conformance.Kit.out;
import static penstock.conformance.Kit.stream;
import static penstock.conformance.Scenarios.dsl;
import static penstock.conformance.Scenarios.papi;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.errors.ErrorHandlerContext;
import org.apache.kafka.streams.errors.ProductionExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.FailOnInvalidTimestamp;
import org.apache.kafka.streams.processor.LogAndSkipOnInvalidTimestamp;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.UsePartitionTimeOnInvalidTimestamp;

/** What goes wrong and what is done about it; where records take their time from. */
public final class Errors {
    private Errors() { }

    /** Goes on after any production error. */
    public static final class ContinueProduction implements ProductionExceptionHandler {
        @Override
        public Response handleError(final ErrorHandlerContext context, final ProducerRecord<byte[], byte[]> record, final Exception exception) {
            return Response.resume();
        }

        @Override
        @SuppressWarnings("rawtypes")
        public Response handleSerializationError(final ErrorHandlerContext context, final ProducerRecord record,
                                                 final Exception exception, final SerializationExceptionOrigin origin) {
            return Response.resume();
        }

        @Override
        public void configure(final Map<String, ?> configs) { }
    }

    /** Takes the time from the value: its length times ten; negative for an empty value. */
    public static final class ByLength implements TimestampExtractor {
        @Override
        public long extract(final ConsumerRecord<Object, Object> record, final long partitionTime) {
            final String value = (String) record.value();
            if (value == null) {
                return partitionTime;
            }
            return value.isEmpty() ? -1 : value.length() * 10L;
        }
    }

    private static Serde<String> refusing() {
        return Serdes.serdeFrom((topic, value) -> {
            if ("x".equals(value)) {
                throw new SerializationException("no x here");
            }
            return S.serializer().serialize(topic, value);
        }, S.deserializer());
    }

    private static String picky(final String value) {
        if ("x".equals(value)) {
            throw new IllegalArgumentException("no x here");
        }
        return value;
    }

    static void register() {
        dsl("error_deserialization", b -> b.stream("in", longsIn()).mapValues(v -> v == null ? null : v + 1).to("out", longsOut()));
        dsl("error_deserialization_table", b -> b.table("in", longsIn(), kv("kept", L)).toStream().to("out", longsOut()));
        dsl("error_deserialization_key", b -> b.stream("in", Consumed.with(L, S)).groupByKey(Grouped.with(L, S)).count().toStream()
            .to("out", Produced.with(L, L)));
        dsl("error_deserialization_repartition", b -> b.stream("in", Consumed.with(S, S)).selectKey((k, v) -> v)
            .groupByKey(Grouped.with(Serdes.serdeFrom(S.serializer(), (topic, data) -> {
                if (data != null && data.length == 1) {
                    throw new SerializationException("too short");
                }
                return S.deserializer().deserialize(topic, data);
            }), S)).count(kv("counts", L)).toStream().to("out", longsOut()));
        dsl("error_processing", b -> stream(b, "in").mapValues(Errors::picky).to("out", out()));
        dsl("error_processing_aggregate", b -> byKey(b, "in").reduce((a, v) -> a + picky(v), kv("reduced", S)).toStream().to("out", out()));
        dsl("error_processing_after_table", b -> b.table("in", in(), kv("kept", S)).toStream().mapValues(Errors::picky).to("out", out()));
        papi("error_processing_processor", t -> t.addSource("source", S.deserializer(), S.deserializer(), "in")
            .addProcessor("picky", Processors.Picky::new, "source").addSink("sink", "out", S.serializer(), S.serializer(), "picky"));
        dsl("error_production", b -> stream(b, "in").to("out", Produced.with(S, refusing())));
        dsl("error_production_of_repartition", b -> stream(b, "in").selectKey((k, v) -> v)
            .groupByKey(Grouped.with(S, refusing())).count(kv("counts", L)).toStream().to("out", longsOut()));
        dsl("time_fail_on_invalid", b -> b.stream("in", in().withTimestampExtractor(new FailOnInvalidTimestamp())).to("out", out()));
        dsl("time_log_and_skip", b -> b.stream("in", in().withTimestampExtractor(new LogAndSkipOnInvalidTimestamp())).to("out", out()));
        dsl("time_use_partition_time", b -> b.stream("in", in().withTimestampExtractor(new UsePartitionTimeOnInvalidTimestamp()))
            .to("out", out()));
        dsl("time_by_value", b -> b.stream("in", in().withTimestampExtractor(new ByLength())).groupByKey(Kit.grouped())
            .windowedBy(Windows.tumbling(10, 5)).count().toStream((w, v) -> Kit.show(w)).to("out", longsOut()));
        dsl("time_default_extractor", b -> stream(b, "in").merge(stream(b, "other")).to("out", out()));
    }
}
