"""Where other software is met: KernelBench, Hugging Face, language models and their trainers."""
