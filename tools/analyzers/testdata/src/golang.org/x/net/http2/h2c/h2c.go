package h2c
