"""Find out why a TLS handshake fails.

If the broker rejects the client certificate, kafka-python reports only that the connection has ended.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping

from app.edges.kafka.connections import tls_context

_TIMEOUT_S = 1.0
# OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED.
_OUT_OF_DATE = frozenset({9, 10})
_ALERT = re.compile(r"_ALERT_(.+)")


def uses_tls(resolved: Mapping[str, str]) -> bool:
    return resolved.get("security.protocol", "").upper().endswith("SSL")


def refusal_of_broker(error: ssl.SSLCertVerificationError) -> str:
    return f"the broker's certificate is not accepted: {error.verify_message}"


def problem(resolved: Mapping[str, str], address: str) -> str | None:
    """Return a reason, after another handshake; None if it succeeds or has no peer. Blocks, for a second at most."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        context = tls_context(resolved)
        with (
            socket.create_connection((host, int(port)), _TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            # In TLS 1.3 the client is done before the broker has checked its certificate.
            secured.recv(1)
    except ssl.SSLCertVerificationError as error:
        return refusal_of_broker(error)
    except ssl.SSLError as error:
        return _refusal_of_ours(resolved, error.reason or "")
    except (OSError, ValueError):
        return None
    return None


def _refusal_of_ours(resolved: Mapping[str, str], reason: str) -> str | None:
    alert = _ALERT.search(reason)
    if alert is None:
        return None
    words = alert[1].lower().replace("_", " ")
    ours = resolved.get("ssl.certificate.location")
    if ours is None:
        return f"the broker ends the handshake ({words}): it may want a certificate, by ssl.certificate.location"
    # Java's brokers report "certificate unknown" for every error of it.
    return f"the broker does not accept the client certificate, {ours}: {_why_out_of_date(resolved) or words}"


def _why_out_of_date(resolved: Mapping[str, str]) -> str | None:
    """Check the client certificate's dates, by a handshake in memory that trusts every issuer."""
    ours = resolved["ssl.certificate.location"]
    verifying, showing = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    showing.check_hostname, showing.verify_mode = False, ssl.CERT_NONE
    verifying.verify_mode = ssl.CERT_REQUIRED
    verifying.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    verifying.load_verify_locations(ours)
    for context in (verifying, showing):
        context.load_cert_chain(ours, resolved.get("ssl.key.location"), resolved.get("ssl.key.password"))
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = showing.wrap_bio(back, there), verifying.wrap_bio(there, back, server_side=True)
    # Hello, hello with the certificate request, the certificate.
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as error:
            return error.verify_message if error.verify_code in _OUT_OF_DATE else None
        except ssl.SSLError:
            return None  # another error, for which the broker's alert is the reason
    return None
