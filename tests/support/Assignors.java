import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.*;

import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Reads members and topics as lines of JSON; writes who gets what by each of Kafka's assignors. */
public final class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        var out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            if (asked.has("newer")) {
                newer(asked, new org.apache.kafka.coordinator.group.assignor.UniformAssignor(), answer);
                newer(asked, new org.apache.kafka.coordinator.group.assignor.RangeAssignor(), answer);
            } else {
                for (var one : List.of(new RangeAssignor(), new RoundRobinAssignor(), new StickyAssignor(),
                        new CooperativeStickyAssignor()))
                    classic(asked, (ConsumerPartitionAssignor) one, answer);
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }

    private static void classic(JsonNode asked, ConsumerPartitionAssignor assignor, ObjectNode answer) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        asked.get("topics").fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks)
                    replicas.add(nodes.computeIfAbsent(rack.asText(), r -> new Node(nodes.size(), "h", 9, r)));
                if (replicas.isEmpty())
                    replicas.add(nodes.computeIfAbsent("", r -> new Node(nodes.size(), "h", 9)));
                Node[] all = replicas.toArray(new Node[0]);
                infos.add(new PartitionInfo(topic.getKey(), number++, all[0], all, all));
            }
        });
        Cluster cluster = new Cluster("c", nodes.values(), infos, Set.of(), Set.of());
        Map<String, ConsumerPartitionAssignor.Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : asked.get("members")) {
            var bytes = ByteBuffer.wrap(HexFormat.of().parseHex(member.get("subscription").asText()));
            var said = ConsumerProtocol.deserializeSubscription(bytes);
            if (!member.get("instance").isNull())
                said.setGroupInstanceId(Optional.of(member.get("instance").asText()));
            subscriptions.put(member.get("id").asText(), said);
        }
        try {
            var given = assignor.assign(cluster, new ConsumerPartitionAssignor.GroupSubscription(subscriptions));
            ObjectNode of = answer.putObject(assignor.name());
            given.groupAssignment().forEach((id, assigned) -> {
                var places = of.putArray(id);
                for (TopicPartition place : assigned.partitions())
                    places.add(place.topic() + ":" + place.partition());
            });
        } catch (RuntimeException e) {
            answer.put(assignor.name(), e.toString());
        }
    }

    private static void newer(JsonNode asked, ConsumerGroupPartitionAssignor assignor, ObjectNode answer)
            throws Exception {
        Map<Uuid, Integer> counts = new HashMap<>();
        asked.get("topics").fields().forEachRemaining(
            topic -> counts.put(Uuid.fromString(topic.getKey()), topic.getValue().size()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (JsonNode member : asked.get("members")) {
            String id = member.get("id").asText();
            Set<Uuid> topics = new LinkedHashSet<>();
            member.get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
            subscriptions.add(topics);
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            member.get("owned").fields().forEachRemaining(of -> {
                List<Integer> numbers = new ArrayList<>();
                of.getValue().forEach(number -> numbers.add(number.asInt()));
                Uuid topic = Uuid.fromString(of.getKey());
                owned.put(topic, new HashSet<>(numbers));
                numbers.forEach(number -> inverted.computeIfAbsent(topic, t -> new HashMap<>()).put(number, id));
            });
            var instance = Optional.ofNullable(member.get("instance").isNull() ? null : member.get("instance").asText());
            members.put(id, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance, topics, new Assignment(owned)));
        }
        var describer = (SubscribedTopicDescriber) Proxy.newProxyInstance(
            Assignors.class.getClassLoader(), new Class<?>[] {SubscribedTopicDescriber.class},
            (self, method, given) -> method.getName().equals("numPartitions") ? counts.getOrDefault(given[0], -1) : Set.of());
        var type = subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        ObjectNode of = answer.putObject(assignor.name());
        assignor.assign(new GroupSpecImpl(members, type, inverted), describer).members().forEach((id, assigned) -> {
            var places = of.putArray(id);
            assigned.partitions().forEach((topic, numbers) -> numbers.forEach(number -> places.add(topic + ":" + number)));
        });
    }
}
