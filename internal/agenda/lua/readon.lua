-- readon reads on where promise stopped. It writes nothing.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  user
-- ARGV[2]  1: the channels matter
-- ARGV[3]  how many to read at most
-- ARGV[4]  how many to leave out at the beginning
-- ARGV[5]  the place from which to read, or the moment
-- then     of a backlog, the place at which to stop, and the category; nothing for what is later
--
-- Result   of a backlog see put_places; of what is later see put_later
local agenda, channels = open_agenda(ARGV[1]), ARGV[2] == '1'
if #ARGV == 5 then return put_later({}, agenda, ARGV[5], ARGV[4], ARGV[3], channels) end
return put_places({}, backlog_of(agenda, ARGV[7]).key, ARGV[5], '(' .. ARGV[6], ARGV[4], ARGV[3], channels)
