"""Speaks to RabbitMQ for tests, by another client than the sink's: one command as a JSON line, one answer."""

import base64
import json
import sys

import pika


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def message(method, properties, body):
    return {
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "content_type": properties.content_type,
        "delivery_mode": properties.delivery_mode,
        "message_id": properties.message_id,
        "type": properties.type,
        "timestamp": properties.timestamp,
        "headers": {name: text(value) for name, value in (properties.headers or {}).items()},
        "body": base64.b64encode(body).decode(),
    }


def drain(channel, queue):
    """Takes all that is in the queue now."""
    left = channel.queue_declare(queue, passive=True).method.message_count
    for _ in range(left):
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        print(json.dumps(message(method, properties, body)))


def run(channel, command):
    match command["do"]:
        case "queue":
            channel.queue_declare(command["name"], durable=True, arguments=command.get("arguments"))
        case "exchange":
            channel.exchange_declare(command["name"], command["type"], durable=True)
        case "bind":
            channel.queue_bind(command["queue"], command["exchange"], command["routing_key"])
        case "delete":
            channel.queue_delete(command["name"])
        case "delete-exchange":
            channel.exchange_delete(command["name"])
        case "drain":
            drain(channel, command["name"])


url, commands = sys.argv[1], json.loads(sys.argv[2])
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
for command in commands:
    run(channel, command)
connection.close()
