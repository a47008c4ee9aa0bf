import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads lines "name version hex", where hex is a message, and prints for each what Kafka's own
 * class makes of it: {"json", "left", "hex"}, or {"error"}. With JSON in place of the hex it is
 * {"hex"} alone.
 */
public final class MessageClasses {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.raft.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
    };

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                String[] words = line.split(" ", 3);
                answer(words[0], Short.parseShort(words[1]), words.length < 3 ? "" : words[2], answer);
            } catch (InvocationTargetException e) {
                answer.put("error", String.valueOf(e.getCause()));
            } catch (Throwable e) {
                answer.put("error", e.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static void answer(String name, short version, String said, ObjectNode answer) throws Exception {
        Class<?> of = find(name);
        Class<?> converter = Class.forName(of.getName() + "JsonConverter");
        Message message;
        if (said.startsWith("{")) {
            Method read = converter.getMethod("read", JsonNode.class, short.class);
            message = (Message) read.invoke(null, JSON.readTree(said), version);
        } else {
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(said));
            message = (Message) of.getConstructor().newInstance();
            message.read(new ByteBufferAccessor(bytes), version);
            answer.put("left", bytes.remaining());
            Method write = converter.getMethod("write", of, short.class);
            answer.set("json", (JsonNode) write.invoke(null, message, version));
        }
        // Older releases have no helper for this.
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] bytes = new byte[message.size(cache, version)];
        message.write(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), cache, version);
        answer.put("hex", HexFormat.of().formatHex(bytes));
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String one : PACKAGES) {
            try {
                return Class.forName(one + name);
            } catch (ClassNotFoundException e) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }
}
