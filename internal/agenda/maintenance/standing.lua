-- standing reports where notifications are. It writes nothing, and works also in a partition that has lost its state.
--
-- KEYS[1]  the partition's prefix
-- ARGV[…]  per notification: id, category, user
--
-- Result   per notification: its state's letter, "" when it is unknown; then a letter for each place that holds it: w
--          its backlog, if the user's agenda names that backlog, r what is later, e in flight, also as an item of a digest, z an end that the other
--          store does not know of
local call, partition = redis.call, KEYS[1]
local result = {}
for i = 1, #ARGV, 3 do
  local id, name, places = ARGV[i], ARGV[i + 1] .. ':' .. ARGV[i + 2], ''
  local waits = call('ZSCORE', partition .. 'w:' .. name, id)
  if waits and call('HEXISTS', partition .. 'a:' .. ARGV[i + 2], ARGV[i + 1]) == 1 then places = places .. 'w' end
  if call('ZSCORE', partition .. 'r:' .. ARGV[i + 2], id) then places = places .. 'r' end
  local carrier = call('HGET', partition .. 'n:' .. id, F.digest)
  local carried = carrier and carrier ~= id and call('EXISTS', partition .. 'digest:' .. carrier) == 1
  if carried or call('ZSCORE', partition .. 'e', id) then places = places .. 'e' end
  if call('HEXISTS', partition .. 'z', id) == 1 then places = places .. 'z' end
  result[#result + 1] = call('HGET', partition .. 'n:' .. id, F.state) or ''
  result[#result + 1] = places
end
return result
