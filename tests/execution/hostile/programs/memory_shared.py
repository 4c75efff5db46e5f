"""Maps shared memory, which no private limit counts."""

import mmap


def attack():
    area = mmap.mmap(-1, 1 << 30)
    for at in range(0, 1 << 30, 4096):
        area[at] = 1
    print("ESCAPED: a gigabyte of shared memory")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
