"""Changes files, their modes, times and attributes."""

import ctypes
import os


def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    for path in (__file__, os.__file__, os.path.dirname(os.__file__)):
        for change in (
            lambda: os.chmod(path, 0o777),
            lambda: os.utime(path),
            lambda: os.chown(path, 0, 0),
            lambda: os.setxattr(path, "user.mark", b"x"),
            lambda: os.truncate(path, 0),
            lambda: os.open(path, os.O_RDONLY | os.O_TRUNC),
            lambda: os.open(path, os.O_WRONLY),
            lambda: os.unlink(path),
            lambda: os.rename(path, path + ".moved"),
            lambda: os.link(path, "linked"),
            lambda: os.mkfifo("fifo"),
        ):
            try:
                change()
            except OSError:
                continue
            print("ESCAPED: changed", path)
    for number in (41, 161, 165, 155, 272, 308, 321, 298, 323, 303, 304, 169):
        if libc.syscall(number, 0, 0, 0, 0, 0) >= 0:
            print("ESCAPED: system call", number)


def make_policy(context):
    return Hostile()


class Hostile:
    def act(self, observation):
        attack()
        return 1
