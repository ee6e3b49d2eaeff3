from tests.unit.submit.fixtures import new_try, switchboard

__all__ = ["new_try", "switchboard"]
