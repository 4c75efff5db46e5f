"""Leaves marks in its scratch folder and looks for those of others where they might be."""

import os


def attack():
    here = os.getcwd()
    open("mark", "w").close()
    above, name = os.path.split(here)
    root = os.path.dirname(above)
    guesses = [f"{above}/mark", f"{root}/mark"]
    for number in range(64):
        guesses += [f"{above}/{number}/mark", f"{root}/{number}/mark", f"{root}/{number}/{name}/mark"]
    for guess in guesses:
        if guess != f"{here}/mark" and os.path.lexists(guess):
            print("ESCAPED: found", guess)


def make_policy(context):
    return Hostile()


class Hostile:
    begun = False

    def act(self, observation):
        if not self.begun:
            self.begun = True
            attack()
        return 1
