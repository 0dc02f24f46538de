"""How URLs of databases, brokers and gateways are told."""

from __future__ import annotations

import pytest

from placet.runtime.urls import redacted_url, with_parameter


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://placet:hunter2@db:5433/placet", "postgresql://placet:***@db:5433/placet"),
        ("postgresql://db/x?user=placet&password=hunter2", "postgresql://db/x?user=placet&password=***"),
        ("postgresql://db/x?user=placet&p%61ssword=hunter2", "postgresql://db/x?user=placet&password=***"),
        (
            "postgresql://placet@db/x?sslkey=/k.pem&sslpassword=hunter2&passfile=/run/pgpass",
            "postgresql://placet@db/x?sslkey=/k.pem&sslpassword=***&passfile=/run/pgpass",
        ),
        ("postgresql://one:hunter2@db-1:5433,db-2/placet", "postgresql://one:***@db-1:5433,db-2/placet"),
        ("postgresql://postgres@/placet?host=/run/placet", "postgresql://postgres@/placet?host=/run/placet"),
        ("postgresql://placet:12/hunter2@db/placet", "postgresql://***"),
        ("postgresql://placet:12#hunter2@db/placet", "postgresql://***"),
        ("postgresql://placet:12?hunter2@db/placet", "postgresql://***"),
        ("amqp://placet:12@hun/ter2@mq/placet", "amqp://***"),
        (
            "postgresql:///placet?host=/run&passwd=hunter2&api_key=h2",
            "postgresql:///placet?host=/run&passwd=***&api_key=***",
        ),
        ("postgresql://placet:hunter2@[db/placet", "***"),
        ("amqp://placet-agent:hunter2@broker/placet", "amqp://placet-agent:***@broker/placet"),
        ("amqps://broker:5671/?cafile=/ca.pem", "amqps://broker:5671/?cafile=/ca.pem"),
        ("https://ada:hunter2@placet.example", "https://ada:***@placet.example"),
    ],
)
def test_a_url_is_told_without_its_secrets(url: str, told: str) -> None:
    """Wherever it has them, and with all that helps to find what is away."""
    assert told == redacted_url(url)


@pytest.mark.parametrize(
    ("url", "full"),
    [
        ("amqp://placet:h%2Fr@mq/", "amqp://placet:h%2Fr@mq/?heartbeat=20"),
        ("amqp://mq/%2F?cafile=/ca.pem", "amqp://mq/%2F?cafile=/ca.pem&heartbeat=20"),
        ("amqp://mq/placet?heartbeat=5", "amqp://mq/placet?heartbeat=5"),
    ],
)
def test_a_parameter_stands_where_none_did(url: str, full: str) -> None:
    """What operators say themselves stays."""
    assert full == with_parameter(url, "heartbeat", "20")
