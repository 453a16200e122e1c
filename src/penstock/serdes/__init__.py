"""Serdes: conversion of keys and values to bytes and back."""
