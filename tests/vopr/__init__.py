"""A federation in a seed: the real server and real devices under a virtual clock, a simulated network and crashes.

schedule     the events in the order of the virtual clock
process      a process that can be killed, halted and started again
fiber        blocking code as a process of the schedule
server_loop  asyncio's event loop over the schedule
network      TCP connections that delay, split, break and fall silent
tls          TLS on both sides of a connection
disk         files that a loss of power forgets unless they were synced
open_file    open files, whose reads and writes can fail
bit_rot      a bit that changes on a disk
rows         the rows of the server's database, which a changed bit must not change
seams        the calls by which a process reaches the disk, where it can be killed
server       the server as a process
device       a device as a process
departing_device  a device that leaves the run, as a process
agent        an agent as a process, under its owner's rules
liar         a device that sends wrong values
habits       devices that sleep, tell tags, or begin late
ids          the ids that the server gives to devices
absences     devices that have left or sleep, by the server's words
early_end    processes that end soon after their start
round_watch  the promises about rounds and withdrawn keys in one life of the server
buffer_watch the promises about asynchronous rounds
commands     the commands that an operator gives to the running server
command_watch  the promises about commands
member_watch the promises about devices that leave, sleep and tell tags
reply_log    the replies that closed rounds have taken in
broken_promise  the error that ends a simulation
settings     what operators may change
operator     what people change, and do about a process that has ended by itself
ledger       the promises that must hold after every event
replay       the replay of a run, which has to end with its parameters
stub_steps   training without arithmetic
stub_growth  the search of new coordinates without arithmetic
savings      what is left out to save time
bounds       the limits of files, connections and objects that processes hold
watch        the promises that are looked after every ten minutes and at the end
federation   the small federation that all processes belong to
faults       which faults come, and when
case         one simulation as a value, and its command
outcome      the end of a simulation as a value
world        the parts put together, from the first event to the verdict
simulation   a simulation from its case to its outcome
shrinking    the smallest list of faults that breaks a promise
night        many schedules over thirteen methods, with a record from which they go on
night_sums   the sums of a night's record
mutants      mistakes, and the seeds that find them
command      the command line
"""
