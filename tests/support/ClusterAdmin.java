import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.quota.*;

/** Asks a cluster for what librdkafka cannot: BOOTSTRAP reassign TOPIC PARTITION NODES | quota CLIENT RATE | feature NAME LEVEL. */
public class ClusterAdmin {
    public static void main(String[] a) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", a[0], "default.api.timeout.ms", 40000);
        try (Admin admin = Admin.create(settings)) {
            switch (a[1]) {
                case "reassign" -> {
                    List<Integer> to = Arrays.stream(a[4].split(",")).map(Integer::valueOf).toList();
                    var of = new TopicPartition(a[2], Integer.parseInt(a[3]));
                    admin.alterPartitionReassignments(Map.of(of, Optional.of(new NewPartitionReassignment(to)))).all().get();
                    while (!admin.listPartitionReassignments().reassignments().get().isEmpty()) Thread.sleep(100);
                }
                case "quota" -> {
                    var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, a[2]));
                    var change = new ClientQuotaAlteration.Op("producer_byte_rate", Double.valueOf(a[3]));
                    admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change)))).all().get();
                }
                case "feature" -> {
                    var update = new FeatureUpdate(Short.parseShort(a[3]), FeatureUpdate.UpgradeType.UPGRADE);
                    admin.updateFeatures(Map.of(a[2], update), new UpdateFeaturesOptions()).all().get();
                }
                default -> throw new IllegalArgumentException(a[1]);
            }
        }
    }
}
