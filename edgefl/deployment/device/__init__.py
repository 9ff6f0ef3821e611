"""A device of a served run: one process that holds private samples and a model, and talks to the server.

device_protocol     the answer to each message, without I/O
device_model        the model, training and evaluation
device_profile      what the owner has said about the device
device_environment  the functions through which the device reaches the world
request_limits      the most that a server may ask of the device
time_limit          the clock that ends what takes longer
device_state        the folder of a run, with all that a crash may not lose
identity            the identity by which the server knows that folder
digest_record       records with their own digest
run_folders         the directory of a device with several runs
run_query           the question which run a server serves
state_reader        reading the directory, for tools
relayed_device      a device that gets its messages through a framework
throughput_meter    the measurement of the device's speed
throughput_report   the report of that speed to the server
device_socket       the connection, which is made again when it breaks
reconnection        the times of further attempts, and their end
"""
