"""What other software reads and writes: KernelBench and Hugging Face."""
