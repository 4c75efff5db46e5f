"""Leaves many small files and folders, in folders nobody may list."""

import os

os.umask(0)


def attack():
    if os.listdir("."):
        print("ESCAPED: found files of another")
    for number in range(150):
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
