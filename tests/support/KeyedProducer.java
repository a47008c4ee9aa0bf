import java.util.HexFormat;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.Future;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends lines of topic, key, value and time, bytes in hex or - for null, to where the Java client puts them. */
public class KeyedProducer {
    private static byte[] bytes(String text) {
        return text.equals("-") ? null : HexFormat.of().parseHex(text);
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "linger.ms", 20);
        ByteArraySerializer plain = new ByteArraySerializer();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, plain, plain)) {
            for (Scanner lines = new Scanner(System.in); lines.hasNextLine();) {
                String[] parts = lines.nextLine().split("\t", -1);
                sent.add(producer.send(new ProducerRecord<>(
                    parts[0], null, Long.valueOf(parts[3]), bytes(parts[1]), bytes(parts[2]))));
            }
        }
        for (Future<RecordMetadata> one : sent) one.get();
    }
}
