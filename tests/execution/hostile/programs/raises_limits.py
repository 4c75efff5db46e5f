"""Raises its own limits, and looks for those that were never set."""

import ctypes
import platform
import resource
import struct

# (open files, core, queued signals) as every Policy has them, whatever its Host has.
PRESET = {
    resource.RLIMIT_NOFILE: (256, 256),
    resource.RLIMIT_CORE: (0, 0),
    resource.RLIMIT_SIGPENDING: (0, 0),
}
LIMITED = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)
CAPGET = {"x86_64": 125, "aarch64": 90}[platform.machine()]


def attack():
    for kind, expected in PRESET.items():
        if resource.getrlimit(kind) != expected:
            print("ESCAPED: it has the limit", kind, resource.getrlimit(kind))
    for kind in LIMITED:
        if resource.RLIM_INFINITY in resource.getrlimit(kind):
            print("ESCAPED: it has no limit", kind)
    for kind in (*LIMITED, *PRESET):
        try:
            resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            print("ESCAPED: limit", kind)
        except (OSError, ValueError):
            pass
    held = ctypes.create_string_buffer(24)
    if ctypes.CDLL(None).syscall(CAPGET, struct.pack("<Ii", 0x20080522, 0), held) != 0 or any(held.raw):
        print("ESCAPED: it has capabilities", held.raw.hex())


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
