import io.fenceline.spark.Step;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Ends, freezes or fails a process at a step of the sink.
 *
 * <p>A file STEP-BATCH-WRITER-ACTION.stop in the folder $FENCELINE_TEST_STOPS is an order; "any" matches every number. It
 * is renamed to .reached when it is carried out, so that it happens once. Actions: kill (kill -9 of this JVM), fail (an
 * exception), hold (this thread waits until the file STEP-BATCH-WRITER-hold.go exists).
 */
public final class StopAtStep implements Step.Listener {
  private static final String FOLDER = System.getenv("FENCELINE_TEST_STOPS");

  @Override
  public void reached(Step step, long batch, int writer) {
    if (FOLDER == null) {
      return;
    }
    try (DirectoryStream<Path> orders = Files.newDirectoryStream(Path.of(FOLDER), step + "-*.stop")) {
      for (Path order : orders) {
        String[] parts = order.getFileName().toString().replace(".stop", "").split("-");
        if (matches(parts[1], batch) && matches(parts[2], writer)) {
          Files.move(order, Path.of(order.toString().replace(".stop", ".reached")));
          act(parts[3], Path.of(order.toString().replace(".stop", ".go")));
        }
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static boolean matches(String wanted, long number) {
    return wanted.equals("any") || (wanted.equals("driver") ? number == -1 : Long.parseLong(wanted) == number);
  }

  private static void act(String action, Path go) throws IOException {
    try {
      switch (action) {
        case "kill" -> {
          new ProcessBuilder("kill", "-9", Long.toString(ProcessHandle.current().pid())).start().waitFor();
          Thread.sleep(Long.MAX_VALUE);
        }
        case "fail" -> throw new IllegalStateException("failed by the test");
        case "hold" -> {
          while (!Files.exists(go)) {
            Thread.sleep(20);
          }
        }
        default -> throw new IllegalArgumentException(action);
      }
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
    }
  }
}
