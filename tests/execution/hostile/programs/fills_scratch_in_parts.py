"""Fills its scratch folder with files none of which is too large."""


def attack():
    for number in range(32):
        with open(f"part-{number}", "wb") as file:
            file.write(b"x" * (1 << 20))
    print("ESCAPED: wrote 32 MiB")


def make_policy(context):
    return Hostile()


class Hostile:
    begun = False

    def act(self, observation):
        if not self.begun:
            self.begun = True
            attack()
        return 1
