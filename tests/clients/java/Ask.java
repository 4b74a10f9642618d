// Sends requests with a java.net.http.HttpClient in its default settings: in HTTP/1.1 it offers
// `Upgrade: h2c` with every request on a new connection.
//
// Each line of standard input is a request: method, URL, how its body is sent (none, bytes, chunked,
// expect), how its answer is read (string, lines, first), the API key and the body in base64,
// separated by tabs. Each line of standard output is an answer: status, protocol and body in base64,
// or "error" and the exception. With `--together` all requests are sent at once.

import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

public class Ask {
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    public static void main(String[] arguments) throws Exception {
        String input = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        List<CompletableFuture<String>> answers = new ArrayList<>();
        for (String line : input.split("\n")) {
            String[] fields = line.split("\t", -1);
            CompletableFuture<String> answer = send(requestOf(fields), fields[3]).exceptionally(Ask::describe);
            if (arguments.length == 0) answer.join();
            answers.add(answer);
        }
        for (CompletableFuture<String> answer : answers) System.out.println(answer.join());
    }

    private static HttpRequest requestOf(String[] fields) {
        byte[] body = Base64.getDecoder().decode(fields[5]);
        BodyPublisher publisher = switch (fields[2]) {
            case "none" -> BodyPublishers.noBody();
            case "chunked" -> BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(body));
            default -> BodyPublishers.ofByteArray(body);
        };
        return HttpRequest.newBuilder(URI.create(fields[1]))
            .method(fields[0], publisher)
            .header("Content-Type", "application/json")
            .header("Authorization", "Bearer " + fields[4])
            .timeout(Duration.ofSeconds(60)) // an answer that never comes is an error
            .expectContinue(fields[2].equals("expect"))
            .build();
    }

    private static CompletableFuture<String> send(HttpRequest request, String read) {
        return switch (read) {
            case "string" -> CLIENT.sendAsync(request, BodyHandlers.ofString()).thenApply(rendered(body -> body));
            case "lines" -> CLIENT.sendAsync(request, BodyHandlers.ofLines()).thenApply(rendered(Ask::allOf));
            default -> CLIENT.sendAsync(request, BodyHandlers.ofLines()).thenApply(rendered(Ask::firstTextOf));
        };
    }

    private static String allOf(Stream<String> lines) {
        try (lines) {
            return lines.collect(Collectors.joining("\n"));
        }
    }

    // The first event with a text; closing the stream ends the request.
    private static String firstTextOf(Stream<String> lines) {
        try (lines) {
            return lines.filter(line -> line.contains("\"content\":\"H")).findFirst().orElse("");
        }
    }

    private static <T> Function<HttpResponse<T>, String> rendered(Function<T, String> text) {
        return answer -> {
            byte[] body = text.apply(answer.body()).getBytes(StandardCharsets.UTF_8);
            return answer.statusCode() + "\t" + answer.version() + "\t" + Base64.getEncoder().encodeToString(body);
        };
    }

    private static String describe(Throwable error) {
        return "error\t" + String.valueOf(error).replaceAll("\\s+", " ") + "\t";
    }
}
