"""Run untrusted code in a child process that can end in any way without hurting anything else."""
