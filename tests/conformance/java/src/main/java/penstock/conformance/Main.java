package penstock.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** Answers requests, one JSON line in and one out, until its input ends. {@code {"list": true}} names the scenarios. */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Main() { }

    public static void main(final String[] args) throws Exception {
        final PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        final ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        final Path stateDir = Path.of(args[0]);
        final BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            final JsonNode request = JSON.readTree(line);
            final ObjectNode answer;
            if (request.has("list")) {
                answer = JSON.createObjectNode();
                answer.set("scenarios", JSON.valueToTree(Scenarios.all().keySet()));
            } else {
                printed.reset();
                answer = new Run(request, stateDir).answer();
                answer.put("printed", printed.toString(StandardCharsets.UTF_8));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }
}
