-- Numbers the lines of a log that have no numbers yet, in the order in which they were written. A promoted replica, or a
-- server that restarted, may lack the latest lines, whose numbers others know already. Whoever asks for what comes after
-- such a number must not miss what happens from then on, so as many numbers are left out as lines are kept. The run_id
-- tells such a server. A master_replid does not: it also changes when a master gets its first replica, and both would
-- leave out the same numbers; and it may outlive a restart. The embedded engine tells no run_id, and forgets everything
-- with its process.
--
--   KEYS[1]  the lines without numbers: moment in µs, space, text
--   KEYS[2]  the lines with numbers, a stream
--   KEYS[3]  the latest number
--   KEYS[4]  the server that gave it
--   ARGV[1]  how many lines are kept
--   ARGV[2]  how many get numbers at once
--   Result   the latest number
local lines = redis.call('LRANGE', KEYS[1], '0', ARGV[2] - 1)
if #lines > 0 then
  local info, known = redis.pcall('INFO', 'server'), redis.call('GET', KEYS[4])
  local found = type(info) == 'string' and string.match(info, 'run_id:(%x+)')
  if found and found ~= known then
    redis.call('SET', KEYS[4], found)
    if known then redis.call('INCRBY', KEYS[3], ARGV[1]) end
  end
  for _, line in ipairs(lines) do
    local at, text = string.match(line, '^(%d+) (.*)$')
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[1], redis.call('INCR', KEYS[3]) .. '-0', 'at', at, 'text', text)
  end
  redis.call('LTRIM', KEYS[1], #lines, '-1')
end
return redis.call('GET', KEYS[3]) or '0'
