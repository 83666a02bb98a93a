"""The judge: is this output as close to the float64 oracle as an honest kernel in that precision can be?"""
