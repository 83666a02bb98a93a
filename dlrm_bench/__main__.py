"""`python -m dlrm_bench`."""

from dlrm_bench.cli import main

main()
