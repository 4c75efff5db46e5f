"""Leaves as many small files and folders as it has time for, in folders nobody may list."""

import os
import time

os.umask(0)


def attack():
    if os.listdir("."):
        print("ESCAPED: found files of another")
    number, end = 0, time.process_time() + 0.1
    while time.process_time() < end:
        number += 1
        os.mkdir(f"folder-{number}", 0o300)
        for name in "abcdefgh":
            os.close(os.open(f"folder-{number}/{name}", os.O_CREAT | os.O_WRONLY, 0))


def make_policy(context):
    return Hostile()


class Hostile:
    begun = False

    def act(self, observation):
        if not self.begun:
            self.begun = True
            attack()
        return 1
