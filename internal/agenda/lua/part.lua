-- part takes notifications out of a digest that is about to be sent: they must not be. They go back to their places.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  user
-- ARGV[2]  the carrier
-- ARGV[3]  the generation that was granted
-- ARGV[…]  notifications
--
-- Result   1; 0 when another generation is in flight
local carrier = ARGV[2]
local state, generation = unpack(redis.call('HMGET', partition .. 'n:' .. carrier, F.state, F.generation))
if state ~= S.sending or generation ~= ARGV[3] then return 0 end
local agenda = open_agenda(ARGV[1])
for i = 4, #ARGV do
  if digests.part(carrier, ARGV[i]) then return_to_backlog(agenda, ARGV[i]) end
end
if agenda.size > 0 then ensure_wakeup(agenda, now) end
write_changes()
return 1
