import java.util.Map;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.StoreBuilder;

/** What makes Streams keep its process id in the state folder; nothing is stored. */
class EmptyStoreOnDisk implements StateStore, StoreBuilder<EmptyStoreOnDisk> {
    private static final String NAME = "store";
    private boolean isOpen;

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        context.register(root, (key, value) -> { });
        isOpen = true;
    }

    @Override
    public void close() {
        isOpen = false;
    }

    @Override
    public boolean persistent() {
        return true;
    }

    @Override
    public boolean isOpen() {
        return isOpen;
    }

    @Override
    public EmptyStoreOnDisk build() {
        return new EmptyStoreOnDisk();
    }

    @Override
    public StoreBuilder<EmptyStoreOnDisk> withCachingEnabled() {
        return this;
    }

    @Override
    public StoreBuilder<EmptyStoreOnDisk> withCachingDisabled() {
        return this;
    }

    @Override
    public StoreBuilder<EmptyStoreOnDisk> withLoggingEnabled(Map<String, String> config) {
        return this;
    }

    @Override
    public StoreBuilder<EmptyStoreOnDisk> withLoggingDisabled() {
        return this;
    }

    @Override
    public Map<String, String> logConfig() {
        return Map.of();
    }

    @Override
    public boolean loggingEnabled() {
        return false;
    }
}
