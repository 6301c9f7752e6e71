"""From a launch to a result: specialisation, compilation, caches and executors."""
