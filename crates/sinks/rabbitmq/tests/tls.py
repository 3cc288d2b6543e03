"""Speaks TLS in front of a server that does not: prints its port, and serves until its input ends."""

import socket
import ssl
import sys
import threading

certificate, key, host, port = sys.argv[1:]


def pass_on(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        target.close()


def serve(client):
    try:
        client = context.wrap_socket(client, server_side=True)
    except OSError:
        return
    server = socket.create_connection((host, int(port)))
    threading.Thread(target=pass_on, args=(client, server), daemon=True).start()
    pass_on(server, client)


def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
threading.Thread(target=accept, daemon=True).start()
sys.stdin.read()
