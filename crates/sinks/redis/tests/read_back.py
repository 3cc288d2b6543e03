"""Reads a stream back by redis-py, which shares no code with the sink's client.

read_back.py URL STREAM: prints one JSON object a line for each entry, in the order of the stream: its fields, with their
values in base64. A stream that is not there has no entries.
"""

import base64
import json
import sys

import redis

url, stream = sys.argv[1:]
for _, fields in redis.Redis.from_url(url).xrange(stream):
    print(json.dumps({name.decode(): base64.b64encode(value).decode() for name, value in fields.items()}))
