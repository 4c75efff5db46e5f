"""Makes folders deeper than any path can name, and files in them."""

import os


def attack():
    for _ in range(1200):
        os.mkdir("d", 0o300)
        os.chdir("d")
    with open("f", "w") as file:
        file.write("x")


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
