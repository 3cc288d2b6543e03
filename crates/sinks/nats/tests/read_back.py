"""Reads a stream back by nats-py, which shares no code with the sink's client.

read_back.py URL STREAM: prints one JSON object a line for each message, in the order of the stream: its subject, its
headers, and its body in base64. A stream that is not there has no messages.
"""

import asyncio
import base64
import json
import sys

import nats
from nats.js.errors import NotFoundError


async def main(url, stream):
    connection = await nats.connect(url, connect_timeout=30)
    jetstream = connection.jetstream(timeout=30)
    try:
        state = (await jetstream.stream_info(stream)).state
    except NotFoundError:
        return await connection.close()
    for number in range(state.first_seq, state.last_seq + 1):
        try:
            message = await jetstream.get_msg(stream, seq=number)
        except NotFoundError:
            continue  # deleted
        body = base64.b64encode(message.data or b"").decode()
        print(json.dumps({"subject": message.subject, "headers": message.headers or {}, "body": body}))
    await connection.close()


asyncio.run(main(*sys.argv[1:]))
