package io.plimsoll.memory.internal.wire;

import io.plimsoll.memory.PlimsollException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;

/**
 * An answer of a broker.
 *
 * @param parameters the parameters of the answer, or of the refusal
 * @param continues whether more answers to the same call follow
 * @param error the full name of an error; null when there is none
 */
public record Reply(Message parameters, boolean continues, String error) {
  private static final String OURS = "io.plimsoll.";
  private static final String SERVICE = "org.varlink.service.";

  /** The errors whose message needs no name before it. */
  private static final Set<String> KNOWN =
      Set.of(
          OURS + "NoSuchPrincipal",
          OURS + "NoSuchProcess",
          OURS + "BadName",
          OURS + "BadWeight",
          OURS + "BadPriority",
          OURS + "BadMax",
          OURS + "BadCgroup",
          OURS + "Cycle",
          OURS + "TooDeep",
          OURS + "TooMany",
          OURS + "NotPermitted",
          OURS + "AlreadyRegistered",
          OURS + "Failed",
          SERVICE + "InterfaceNotFound",
          SERVICE + "MethodNotFound",
          SERVICE + "MethodNotImplemented",
          SERVICE + "InvalidParameter",
          SERVICE + "ExpectedMore");

  /**
   * Parses a message.
   *
   * @param message the message without its NUL byte
   * @param keep the names of the fields that are wanted
   * @return the answer
   * @throws PlimsollException when it is no answer
   */
  public static Reply parse(byte[] message, Predicate<String> keep) throws PlimsollException {
    try {
      // Unlike the constructor of a text, this refuses what is not UTF-8.
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(message)).toString();
      if (!(Json.parse(text, keep) instanceof Map<?, ?> fields)) {
        throw Message.against("the answer is no JSON object");
      }
      Message reply = new Message(fields);
      return new Reply(
          reply.object("parameters"), reply.flag("continues"), reply.optionalText("error"));
    } catch (CharacterCodingException notText) {
      throw Message.against("the answer is not UTF-8");
    } catch (Json.Malformed malformed) {
      throw Message.against("the answer is not JSON: " + malformed.getMessage());
    }
  }

  /**
   * Returns the parameters of an answer that is no refusal.
   *
   * @return the parameters
   * @throws PlimsollException the broker's refusal
   */
  public Message result() throws PlimsollException {
    if (error == null) {
      return parameters;
    }
    String told = parameters.fields().get("message") instanceof String message ? message : null;
    String message = error;
    if (told != null) {
      message = KNOWN.contains(error) ? told : error + ": " + told;
    }
    String named = parameters.fields().get("parameter") instanceof String name ? name : null;
    throw PlimsollException.refused(error, message, named);
  }
}
