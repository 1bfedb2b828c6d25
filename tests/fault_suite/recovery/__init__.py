"""How long records stand still after each loss of an instance, against what was promised (docs/standstill.md)."""
