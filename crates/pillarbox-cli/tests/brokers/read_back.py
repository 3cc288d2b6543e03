"""Makes, reads back and removes what events go to, by clients that share no code with those of the sinks.

read_back.py make|read|remove kafka|nats|rabbitmq|redis URL NAME

`read` prints one JSON object a line for each message, in the order of the broker: the event id by which the broker knows
it, its headers, and its body. Topics of Kafka are read by kcat.
"""

import asyncio
import json
import sys


def show(event_id, headers, body):
    text = {name: value.decode() if isinstance(value, bytes) else value for name, value in headers.items()}
    print(json.dumps({"id": event_id, "headers": text, "body": body.decode()}))


def kafka(verb, url, name):
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": url})
    if verb == "make":
        done = admin.create_topics([NewTopic(name, num_partitions=4, replication_factor=1)])
    else:
        done = admin.delete_topics([name])
    for result in done.values():
        result.result(60)


def nats(verb, url, name):
    asyncio.run(jetstream(verb, url, name))


async def jetstream(verb, url, name):
    import nats as client
    from nats.js.errors import NotFoundError

    connection = await client.connect(url, connect_timeout=30)
    stream = connection.jetstream(timeout=60)
    if verb == "make":
        await stream.add_stream(name=name, subjects=[f"{name}.>"], duplicate_window=600)
    elif verb == "remove":
        try:
            await stream.delete_stream(name)
        except NotFoundError:
            pass
    else:
        left = (await stream.stream_info(name)).state.messages
        reader = await stream.subscribe(f"{name}.>", stream=name, ordered_consumer=True)
        for _ in range(left):
            message = await reader.next_msg(timeout=60)
            headers = message.headers or {}
            show(headers.get("event-id"), headers, message.data)
    await connection.close()


def rabbitmq(verb, url, name):
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    if verb == "make":
        channel.queue_declare(name, durable=True)
    elif verb == "remove":
        channel.queue_delete(name)
    else:
        left = channel.queue_declare(name, passive=True).method.message_count
        for _, properties, body in channel.consume(name, auto_ack=True) if left else []:
            show(properties.message_id, properties.headers or {}, body)
            left -= 1
            if left == 0:
                break
        channel.cancel()
    connection.close()


def redis(verb, url, name):
    import redis as client

    server = client.Redis.from_url(url)
    if verb == "remove":
        server.delete(name)
    elif verb == "read":
        last = "-"
        while entries := server.xrange(name, min=last, count=5000):
            for _, fields in entries:
                fields = {field.decode(): value for field, value in fields.items()}
                show(fields["event-id"].decode(), {**fields, "body": b""}, fields["body"])
            last = b"(" + entries[-1][0]


verb, kind, url, name = sys.argv[1:]
{"kafka": kafka, "nats": nats, "rabbitmq": rabbitmq, "redis": redis}[kind](verb, url, name)
