"""The recovery time after each loss of an instance, against its bound (docs/measured/standstill.md)."""
