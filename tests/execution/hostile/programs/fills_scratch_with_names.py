"""Fills its scratch folder with names, none of which has contents."""

import os


def attack():
    for number in range(20_000):
        os.symlink("x", str(number))
    print("ESCAPED: 20,000 names")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
