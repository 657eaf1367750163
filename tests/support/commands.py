"""Arguments of commands that several tests give, and Ctrl-C at a certain call."""

CONSTANTS = ("constants", "--A", "2", "--d", "3", "--H", "5", "--delta", "0.5", "--B", "1")


def interrupting(real, at):
    """``real``, whose call with that number is interrupted."""
    calls = []

    def wrapped(*arguments, **options):
        calls.append(arguments)
        if len(calls) == at:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    return wrapped
