"""CUDA C++ solutions, where Triton cannot get as near to the floor."""
