"""Crashes its interpreter."""

import ctypes


def attack():
    ctypes.string_at(0)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
