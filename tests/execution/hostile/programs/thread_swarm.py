"""Starts threads that need no memory of their own, several at a time, until there can be no more."""

import threading

threading.stack_size(32768)
MOST = 150
go = threading.Event()
started = []


def swarm():
    try:
        while len(started) < 4 * MOST:
            thread = threading.Thread(target=go.wait, daemon=True)
            thread.start()
            started.append(thread)
    except (RuntimeError, MemoryError):
        return


def attack():
    first = [threading.Thread(target=swarm, daemon=True) for _ in range(8)]
    for thread in first:
        thread.start()
    for thread in first:
        thread.join()
    if len(started) + len(first) > MOST:
        print("ESCAPED: threads", len(started))
    if len(started) < 40:
        print("ESCAPED nothing, but has too few threads:", len(started))
    go.set()
    for thread in started:
        thread.join()
    started.clear()
    go.clear()


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
