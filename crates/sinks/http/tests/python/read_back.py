"""Reads one request as a receiver in Python would, and prints what it found as JSON.

Standard input has `{"headers": {...}, "body": "base64", "secrets": ["whsec_..."]}`. Each secret must accept the
signature on its own; without secrets nothing is verified.
"""

import base64
import json
import sys

from cloudevents.core.bindings import http
from standardwebhooks.webhooks import Webhook

request = json.load(sys.stdin)
body = base64.b64decode(request["body"])
for secret in request["secrets"]:
    Webhook(secret).verify(body, request["headers"])

event = http.from_http_event(http.HTTPMessage(headers=request["headers"], body=body))
data = event.get_data()
json.dump(
    {
        "attributes": {name: str(value) for name, value in event.get_attributes().items()},
        "data": data.hex() if isinstance(data, bytes) else data,
    },
    sys.stdout,
)
