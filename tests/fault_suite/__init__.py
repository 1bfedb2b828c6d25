"""One seeded run of faults over pipelines on a real cluster, and the verifier that judges it (docs/adr/0027)."""
