import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Collection;
import java.util.Properties;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Kafka's own definitions of a broker's settings, of whatever release is on the class path.
 *
 * `list` prints a line for each: name, type, kind of check, and its fields as name=value, tabs
 * between. `judge` reads settings, a line for each broker (NAME \2 VALUE, \1 between them), and
 * prints what a broker would say of them; nothing where it takes them.
 */
public class SettingDefinitions {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        if (arguments[0].equals("list")) list(out);
        else judge(out);
    }

    private static void list(PrintStream out) throws Exception {
        for (ConfigDef.ConfigKey key : definitions().configKeys().values()) {
            StringBuilder line = new StringBuilder(key.name + "\t" + key.type + "\t");
            if (key.validator != null) {
                line.append(key.validator.getClass().getSimpleName());
                append(line, key.validator);
            }
            out.println(line);
        }
    }

    private static void append(StringBuilder line, Object checked) throws Exception {
        for (Field field : checked.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers())) continue;
            field.setAccessible(true);
            Object value = field.get(checked);
            if (value == null) continue;
            if (value instanceof ConfigDef.Validator) append(line, value);
            else if (value instanceof Collection) line.append("\t" + field.getName() + "=" + String.join(",", (Collection<String>) value));
            else if (value instanceof String[]) line.append("\t" + field.getName() + "=" + String.join(",", (String[]) value));
            else line.append("\t" + field.getName() + "=" + value);
        }
    }

    private static ConfigDef definitions() throws Exception {
        for (String name : Arrays.asList("org.apache.kafka.server.config.AbstractKafkaConfig", "kafka.server.KafkaConfig$")) {
            Class<?> found;
            try {
                found = Class.forName(name);
            } catch (ClassNotFoundException e) {
                continue;
            }
            Object module = name.endsWith("$") ? found.getField("MODULE$").get(null) : null;
            for (Field field : found.getDeclaredFields()) {
                if (field.getType() != ConfigDef.class) continue;
                field.setAccessible(true);
                return (ConfigDef) field.get(module);
            }
        }
        throw new IllegalStateException("no definitions of settings on the class path");
    }

    private static void judge(PrintStream out) throws Exception {
        Method made = null;
        for (Method method : Class.forName("kafka.server.KafkaConfig").getMethods())
            if (method.getName().equals("fromProps") && method.getParameterCount() == 1) made = method;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Properties settings = new Properties();
            for (String setting : line.split("\1")) {
                int end = setting.indexOf('\2');
                settings.setProperty(setting.substring(0, end), setting.substring(end + 1));
            }
            String said = "";
            try {
                made.invoke(null, settings);
            } catch (InvocationTargetException e) {
                said = String.valueOf(e.getCause().getMessage());
            }
            out.println(said.replace("\n", "\\n"));
            out.flush();
        }
    }
}
