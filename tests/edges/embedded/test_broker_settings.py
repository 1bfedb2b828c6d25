from __future__ import annotations

from pathlib import Path

from app.edges.embedded.broker_settings import BrokerListener, broker_settings


def test_clients_get_the_advertised_port_of_a_listener() -> None:
    settings = broker_settings(
        node_id=1,
        port=15_001,
        controller_port=15_002,
        voters="1@127.0.0.1:15002",
        brokers=1,
        data=Path("data"),
        listeners={"PROXIED": BrokerListener(15_003, "PLAINTEXT", advertised=15_999)},
    )
    assert settings["listeners"] == (
        "PLAINTEXT://127.0.0.1:15001,PROXIED://127.0.0.1:15003,CONTROLLER://127.0.0.1:15002"
    )
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:15001,PROXIED://127.0.0.1:15999"
