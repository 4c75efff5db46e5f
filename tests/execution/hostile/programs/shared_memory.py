"""Makes memory and queues that others could open."""

import ctypes


def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(4711, 4096, 0o1666) >= 0:
        print("ESCAPED: shmget")
    if libc.semget(4711, 1, 0o1666) >= 0:
        print("ESCAPED: semget")
    if libc.msgget(4711, 0o1666) >= 0:
        print("ESCAPED: msgget")
    if libc.shm_open(b"/evopolicy-hostile", 0o102, 0o666) >= 0:
        print("ESCAPED: shm_open")
    if libc.mq_open(b"/evopolicy-hostile", 0o102, 0o666, None) >= 0:
        print("ESCAPED: mq_open")
    if libc.memfd_create(b"x", 0) >= 0:
        print("ESCAPED: memfd_create")
    if libc.syscall(248, b"user", b"x", b"y", 1, -2) >= 0:
        print("ESCAPED: add_key")
    if libc.syscall(425, 8, ctypes.create_string_buffer(256)) >= 0:
        print("ESCAPED: io_uring_setup")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
